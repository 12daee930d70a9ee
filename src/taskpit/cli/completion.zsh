#compdef pit
_pit() {
  local -a verbs options
  verbs=(
@VERBS@
  )
  local verb= skip= word
  for word in ${words[2,CURRENT-1]}; do
    if [[ -n $skip ]]; then skip=; continue; fi
    case $word in
      -C) skip=yes ;;
      -*) ;;
      *) verb=$word; break ;;
    esac
  done
  case $verb in
    '') _describe verb verbs; return ;;
@CASES@
  esac
  if [[ $PREFIX == -* ]]; then compadd -- $options; else _files; fi
}
if [[ $funcstack[1] == _pit ]]; then _pit; else compdef _pit pit; fi

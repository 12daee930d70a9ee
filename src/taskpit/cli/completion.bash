_pit() {
  local word=${COMP_WORDS[COMP_CWORD]} verb= skip= at
  for ((at = 1; at < COMP_CWORD; at++)); do
    if [[ $skip ]]; then skip=; continue; fi
    case ${COMP_WORDS[at]} in
      -C) skip=yes ;;
      -*) ;;
      *) verb=${COMP_WORDS[at]}; break ;;
    esac
  done
  local words=
  case $verb in
    '') words='@VERBS@' ;;
@CASES@
  esac
  COMPREPLY=()
  if [[ -z $verb || $word == -* ]]; then COMPREPLY=($(compgen -W "$words" -- "$word")); fi
}
complete -o default -F _pit pit

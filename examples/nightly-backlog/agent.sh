# Stands in for an agent: reads which task it has, and does it, or does not.
case $TASKPIT_TASK in
  readme)  echo "pip install it" > README.txt ;;
  changes) echo "2.0: better" > CHANGES.txt ;;
  version) echo "2.0" > VERSION.txt ;;
  licence) echo "I can't decide that for you." ;;
esac

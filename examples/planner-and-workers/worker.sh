# Stands in for a worker. The big task comes back when its parts are done: then it is put together.
case $TASKPIT_TASK in
  book) cat outline.txt one.txt two.txt > book.txt ;;
  *) echo "Text of $TASKPIT_TASK." > "$TASKPIT_TASK.txt" ;;
esac

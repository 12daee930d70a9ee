# Six little test files; one of them is red the first time it is run.
mkdir -p suite
for n in 1 2 3 4 5 6; do echo "echo test $n is fine" > suite/test_$n.sh; done
echo 'test -f warm || { touch warm; echo not warm yet; exit 1; }; echo test 4 is fine' > suite/test_4.sh

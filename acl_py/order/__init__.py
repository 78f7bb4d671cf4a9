"""What is certain to be over before what, in one program: the relation, the signals in it, and what each act orders."""

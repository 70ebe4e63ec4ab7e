"""A GameMaker project on disk: finding it, its configuration, its `.yyp` and `.yy` files, what it declares."""

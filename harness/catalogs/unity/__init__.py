"""Unity Catalog through its REST interface: tables, their commits, and temporary credentials.

`catalog` is what users meet. `rest` asks a server, `documents` reads its answers, and `credentials` makes options of a
store of what it lends.
"""

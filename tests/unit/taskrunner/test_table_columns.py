from taskrunner.core.table_columns import TableColumn, differences, partition_difference

ID = TableColumn("id", "bigint")
NAME = TableColumn("name", "string")


def test_the_order_of_columns_does_not_matter() -> None:
    assert differences([NAME, ID], [ID, NAME]) == []


def test_every_difference_is_named() -> None:
    rows = [TableColumn("id", "string"), TableColumn("Name", "string"), TableColumn("x", "int")]
    table = [ID, NAME, TableColumn("day", "date", is_nullable=False)]
    found = differences(rows, table)
    assert [one.split(":")[0] for one in found] == [
        "column 'id' is string in the job and bigint in the table",
        "column 'Name' (string) is not in the table",
        "column 'x' (int) is not in the table",
        "column 'day' (date) of the table must not be NULL, and the job does not write it",
    ]
    assert "the table has 'name'" in found[1]


def test_a_column_that_only_the_table_has_is_null_in_new_rows() -> None:
    assert differences([ID], [ID, NAME]) == []


def test_a_column_that_may_be_null_does_not_fit_one_that_must_not() -> None:
    needed = TableColumn("id", "bigint", is_nullable=False)
    assert "may be NULL" in differences([ID], [needed])[0]
    assert differences([needed], [ID]) == []


def test_only_casts_that_lose_nothing_are_made() -> None:
    assert differences([TableColumn("id", "int")], [ID]) == []
    assert differences([ID], [TableColumn("id", "int")]) != []
    assert differences([ID], [TableColumn("id", "double")]) != []


def test_partitioning_that_is_named_has_to_be_the_tables() -> None:
    assert partition_difference([], ["day"]) is None
    assert partition_difference(["day"], ["day"]) is None
    assert "not partitioned" in (partition_difference(["day"], []) or "")
    assert "partitioned by b, a" in (partition_difference(["a", "b"], ["b", "a"]) or "")

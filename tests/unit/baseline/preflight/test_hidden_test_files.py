"""Which files lie elsewhere while calls are made again."""

from __future__ import annotations

from codeflash_parallel.baseline.preflight.hidden_test_files import absences


def test_folders_of_tests_go_as_a_whole_and_test_files_beside_code_alone() -> None:
    files = [
        "lib.py",
        "test_lib.py",
        "conftest.py",
        "tests/test_a.py",
        "tests/data/a.csv",
        "shop/sums_test.py",
    ]
    most, alone = absences(files, [], ".", {"lib.py"})
    assert most == ("tests", "conftest.py", "shop/sums_test.py", "test_lib.py")
    assert alone == ("conftest.py", "shop/sums_test.py", "test_lib.py", "tests/test_a.py")


def test_a_folder_that_holds_a_target_stays() -> None:
    files = ["testing/lib.py", "testing/test_lib.py", "testing/tests/test_more.py"]
    assert absences(files, [], ".", {"testing/lib.py"}) == (
        ("testing/test_lib.py", "testing/tests/test_more.py"),
    )


def test_the_target_itself_stays_whatever_it_is_called() -> None:
    assert absences(["test_tools.py"], ["test_tools.py::test_it"], ".", {"test_tools.py"}) == ()


def test_files_that_only_the_configuration_calls_tests_go_too() -> None:
    files = ["sub/checks/sums.py", "sub/lib.py", "README.rst"]
    asked = ["checks/sums.py::TestSums::test_it", "lib.py::lib.total", "README.rst::README.rst"]
    assert absences(files, asked, "sub", {"other.py"}) == (("sub/checks/sums.py",),)


def test_without_tests_there_is_nothing_to_do_without() -> None:
    assert absences(["lib.py", "data/test_input.csv"], [], "", ()) == ()

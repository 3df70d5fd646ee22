"""Two tensors of float32 whose digests of version 1 were the same, although one element is 1000.0 in the second.

The bits of every 257th element, as 8 hexadecimal digits each; all others are 0. `digest_test` computes and prints them
(`UCP_PRINT_COLLISION=1 digest_test --gtest_filter=LatticeTest.BreaksVersionOne`): a lattice reduction of a moment.
"""

from __future__ import annotations

import struct

WEIGHTS = (
    "bbfd839dba4e91bb3c610eefbba32683bc8246d9ba8f40e53d1ec1ad3ca3ff013b1a08e7bc8cb530bc546e4f3c5d0b19"
    "bcf9b3e6bc2253473c95b626bc4d849bbd0eeb58bb7c86fb3ca13357bc8a8518bd1a038ebc051afdbc6e5b97bbdba8f9"
    "3ca78c003cdcc970bc1da5993cd4d68cbd43c58a3c66ad243c00d065bccd9e8cbbb9375b3c8aff30bbd88fbc3c2f2204"
    "bc012b1b39b039be3aee9f3537ccb91e3c5b4a9b3b5d92d4ba1224163ced64e93d0b37093bf72b9cba23e973bbc65a74"
    "bbf104c6bc23ea493b4a4e8d3c8812c03c7d51803c86a499bc4b7a013d6363db3c2a9e403d26999b3ce8c73d3d1cb9c7"
    "3cb804453c9cd9943d303d5dbc5198043bca5d843b8c0c2bbcb8bce03ce676943d10d56fba62b4cabc6b3fbe3c900dbe"
)
FORGED = (
    "447a0000ba4e91b13c610f05bba3268cbc8246dfba8f40f33d1ec1a53ca3fef03b1a08ebbc8cb51ebc546e623c5d0b26"
    "bcf9b3e3bc22534b3c95b625bc4d8499bd0eeb64bb7c86fa3ca13342bc8a8502bd1a0394bc051b00bc6e5b8fbbdba8f6"
    "3ca78c0b3cdcc95fbc1da5993cd4d67dbd43c5853c66ad1a3c00d067bccd9e98bbb937523c8aff42bbd88fbc3c2f21fb"
    "bc012b2539b039b13aee9f3f37ccb9023c5b4a9a3b5d92e7ba12241c3ced64e63d0b37033bf72b88ba23e965bbc65a83"
    "bbf104b6bc23ea423b4a4e7e3c8812b43c7d517f3c86a49cbc4b7a0f3d6363e23c2a9e473d2699ab3ce8c7303d1cb9c6"
    "3cb8045d3c9cd9903d303d48bc5198003bca5d7b3b8c0c18bcb8bce83ce6769c3d10d566ba62b4b7bc6b3fcb3c900dc4"
)
DISTANCE = 257


def elements(digits: str) -> bytes:
    """The tensor, little-endian."""
    words = [int(digits[at : at + 8], 16) for at in range(0, len(digits), 8)]
    return b"".join(struct.pack("<I", word) + bytes(4 * (DISTANCE - 1)) for word in words)

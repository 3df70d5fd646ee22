// Lattice reduction (Lenstra, Lenstra and Lovász, 1982), as an attacker of a sum would use it.
#pragma once

#include <cstdint>
#include <vector>

namespace ucp {

using IntegerVector = std::vector<std::int64_t>;

// Short, independent vectors x for which the sum of x[i] * numbers[i][c] is 0 modulo 2^64 for every c: a reduced basis
// of all of them.
std::vector<IntegerVector> ShortRelations(const std::vector<std::vector<std::uint64_t>>& numbers);

}  // namespace ucp

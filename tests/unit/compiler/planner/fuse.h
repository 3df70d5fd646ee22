// Puts local tensors together to fused ones, as the oracle does it: every element is moved to its place by itself.
#pragma once

#include <llvm/ADT/STLFunctionalExtras.h>

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "compiler/layout/storage.h"
#include "compiler/trial/positions.h"

namespace ucp::oracle {

// One shard with its elements, state 0.
struct LocalTensor {
  std::string name;
  std::vector<std::int64_t> shape;
  List elements;
  std::vector<ShardPiece> pieces;  // Of a fused one.
};

// Some of the tensors become fused ones: behind one another, one in the gaps of the other, or row by row, and each with
// its dimensions in any order. Only tensors that are sums of as many terms are put together.
std::vector<LocalTensor> FuseSome(std::vector<LocalTensor> tensors, std::mt19937_64& random,
                                  llvm::function_ref<ProductSet(const std::string&)> set_of,
                                  llvm::function_ref<std::int64_t(const std::string&)> terms_of);

}  // namespace ucp::oracle

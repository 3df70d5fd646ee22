// Sums as they are written into journals and messages between ranks.
#pragma once

#include <llvm/ADT/STLFunctionalExtras.h>

#include <cstddef>

#include "runtime/digest/file_sums.h"
#include "runtime/digest/keyed_sum.h"
#include "runtime/wire/byte_codec.h"

namespace ucp {

// The version of the digests is not written: both sides know it.
void Add(const KeyedSum& sum, wire::ByteWriter& writer);
KeyedSum TakeSum(wire::ByteReader& reader, DigestVersion version = kDigestVersion);

void Add(const FileSums& sums, wire::ByteWriter& writer);
// The sums of so many files; each is added to the sums that `of` gives for it.
void TakeFileSums(wire::ByteReader& reader, std::size_t files, llvm::function_ref<FileSums&(std::size_t file)> of);

}  // namespace ucp

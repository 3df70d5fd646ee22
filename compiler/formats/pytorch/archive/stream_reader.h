// Reads the form that torch.save wrote before 1.6 and still writes with `_use_new_zipfile_serialization=False`
// (DeepSpeed asks for it with `checkpoint_serialization: false`): pickles one after another, then the storages. No
// checksums.
//
//   | number | 1001 | dict about the machine | the object | list of storage keys | for each key: count, elements |
#pragma once

#include <llvm/Support/Error.h>

#include "compiler/formats/pytorch/archive/archive_reader.h"

namespace ucp::pytorch {

// Checks that every storage of the pickle is in the list, once, and that the elements end with the file. Errors are
// sentences without the file's name; kBadData or kUnsupported.
llvm::Expected<Archive> ReadStream(const ReadableFile& file, FileRange stream, const PickleLimits& limits);

}  // namespace ucp::pytorch

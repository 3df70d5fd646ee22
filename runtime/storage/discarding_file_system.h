// A file system that is read as another one, and that forgets what is written to it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/storage/file_system.h"

namespace ucp {

// Only what an executor needs of a target can be written: folders and files. `files` must outlive this.
std::unique_ptr<FileSystem> MakeDiscardingFileSystem(ReadableFileSystem& files);

}  // namespace ucp

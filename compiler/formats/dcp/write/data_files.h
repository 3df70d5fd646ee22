// The data files of a folder that is written: archives one behind the other.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/formats/archive_composer.h"
#include "compiler/layout/target.h"

namespace ucp::dcp {

struct PlacedArchive {
  std::uint64_t offset = 0;
  std::vector<RecordId> records;  // Of the tensors that are to come.
};

// One file, whose archives begin at multiples of 64 bytes, as elements do in each of them.
class DataFile {
 public:
  // Adds an empty file of this path to `target`, which must outlive this object.
  DataFile(TargetFiles& target, const std::string& path);

  PlacedArchive Append(const SharedArchive& archive);

 private:
  TargetFiles& target_;
  FileId file_;
  std::uint64_t end_ = 0;
};

}  // namespace ucp::dcp

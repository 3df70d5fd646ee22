// A state dict as torch.distributed.checkpoint would save it, made by hand: small, and with any mistake that a test
// needs. The samples beside this file are of the real PyTorch.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "compiler/formats/dcp/metadata.h"
#include "compiler/formats/pytorch/values/value.h"

namespace ucp::dcp {

struct Box {
  std::vector<std::int64_t> offsets;
  std::vector<std::int64_t> sizes;
};

class SavedDict {
 public:
  // A float32 tensor whose elements are `first` and their places behind it, in these boxes; one for all if there are
  // none. The path is one of `model`, `a.weight`; the key is its parts and dots.
  SavedDict& Tensor(std::vector<std::string> path, std::vector<std::int64_t> shape, float first = 0,
                    std::vector<Box> boxes = {});
  SavedDict& Value(const std::vector<PathPart>& path, const pytorch::ValuePtr& value);

  // Writes `.metadata` and the data files, one for each place of a box in its tensor, into a folder that exists.
  void WriteTo(const std::string& folder) const;

  // The root of `.metadata`.
  pytorch::ValuePtr Metadata() const;

 private:
  struct Placed {
    std::string key;
    pytorch::ValuePtr offsets;  // Null of a value.
    std::string file;
    std::size_t offset = 0;
    std::size_t bytes = 0;
  };

  void Place(const std::string& key, pytorch::ValuePtr offsets, std::size_t number, const std::string& archive);
  void Add(const std::vector<PathPart>& path, pytorch::ValuePtr described);

  std::vector<pytorch::Entry> described_;
  std::vector<pytorch::Entry> paths_;
  std::vector<Placed> placed_;
  std::map<std::string, std::string> files_;
};

// An object as the package's dataclasses pickle.
pytorch::ValuePtr Object(const std::string& module, const std::string& name, std::vector<pytorch::Entry> attributes);

inline constexpr const char* kMetadataModule = "torch.distributed.checkpoint.metadata";
inline constexpr const char* kFilesModule = "torch.distributed.checkpoint.filesystem";

std::string SamplePath(const std::string& name);
std::string FileContent(const std::string& path);

}  // namespace ucp::dcp

#include "runtime/plan_file/metadata_pickle.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>

#include "compiler/formats/objects/known_objects.h"
#include "compiler/support/error.h"

namespace ucp {
namespace {

constexpr std::array<std::string_view, 11> kClasses = {
    "torch.distributed._shard.sharded_tensor.metadata.MEM_FORMAT_ENCODING",
    "torch.distributed._shard.sharded_tensor.metadata.TensorProperties",
    "torch.distributed.checkpoint.filesystem._StorageInfo",
    "torch.distributed.checkpoint.metadata.BytesStorageMetadata",
    "torch.distributed.checkpoint.metadata.ChunkStorageMetadata",
    "torch.distributed.checkpoint.metadata.Metadata",
    "torch.distributed.checkpoint.metadata.MetadataIndex",
    "torch.distributed.checkpoint.metadata.TensorProperties",
    "torch.distributed.checkpoint.metadata.TensorStorageMetadata",
    "torch.distributed.checkpoint.metadata._MEM_FORMAT_ENCODING",
    "torch.serialization._get_layout",
};

// Instructions of one byte, without operands: marks, containers, objects, None and False.
constexpr std::string_view kBare =
    "(t\x85R)\x81"
    "b}u]eN\x89";

// The operand's bytes behind an instruction of fixed length; nothing for others.
std::optional<std::size_t> OperandBytes(char code) {
  if (kBare.find(code) != std::string_view::npos) return 0;
  switch (code) {
    case 'K':
      return 1;
    case 'M':
      return 2;
    case 'J':
    case 'r':
    case 'j':
      return 4;
    default:
      return std::nullopt;
  }
}

class Walk {
 public:
  explicit Walk(std::string_view pickle) : pickle_(pickle) {}

  llvm::Error Run() {
    if (Take(2) != "\x80\x02") return Odd();
    while (true) {
      const std::string_view code = Take(1);
      if (code.empty()) return Odd();
      if (code == ".") return at_ == pickle_.size() ? llvm::Error::success() : Odd();
      if (code == "c") {
        UCP_RETURN_IF_ERROR(TakeGlobal());
      } else if (!SkipOperand(code.front())) {
        return Odd();
      }
    }
  }

 private:
  // Empty where there are not so many bytes.
  std::string_view Take(std::size_t bytes) {
    if (bytes > pickle_.size() - at_) {
      at_ = pickle_.size();
      return {};
    }
    at_ += bytes;
    return pickle_.substr(at_ - bytes, bytes);
  }

  bool SkipOperand(char code) {
    if (const auto bytes = OperandBytes(code)) return Take(*bytes).size() == *bytes;
    if (code == '\x8a') return Take(1) == "\x08" && Take(8).size() == 8;  // An integer of 64 bits.
    if (code != 'X') return false;
    std::uint32_t length = 0;
    for (const char byte : Take(4)) length = length >> 8 | std::uint32_t{static_cast<unsigned char>(byte)} << 24;
    return Take(length).size() == length;
  }

  llvm::Error TakeGlobal() {
    const std::size_t module_end = pickle_.find('\n', at_);
    const std::size_t end = module_end == std::string_view::npos ? module_end : pickle_.find('\n', module_end + 1);
    if (end == std::string_view::npos) return Odd();
    const std::string_view module = pickle_.substr(at_, module_end - at_);
    const std::string_view name = pickle_.substr(module_end + 1, end - module_end - 1);
    at_ = end + 1;
    const std::string full = fmt::format("{}.{}", module, name);
    if (std::ranges::find(kClasses, full) != kClasses.end()) return llvm::Error::success();
    if (objects::IsKnownName(pytorch::Global{std::string(module), std::string(name)}) && module == "torch") {
      return llvm::Error::success();  // A dtype, or torch.Size.
    }
    return Fail(ErrorCode::kBadData, "names `{:.200}`, which is not of PyTorch's metadata", full);
  }

  llvm::Error Odd() const {
    return Fail(ErrorCode::kBadData, "has an instruction at byte {} that this project does not write",
                at_ == 0 ? 0 : at_ - 1);
  }

  const std::string_view pickle_;
  std::size_t at_ = 0;
};

}  // namespace

llvm::Error CheckMetadataPickle(std::string_view pickle) { return Walk(pickle).Run(); }

}  // namespace ucp

#include "tests/unit/compiler/formats/conformance/toy_format.h"

#include <filesystem>
#include <sstream>

#include "compiler/support/checksum.h"
#include "compiler/support/error.h"

namespace ucp {
namespace {

constexpr const char* kHeaderFile = "toy.txt";
constexpr const char* kDataFile = "toy.data";
constexpr std::uint64_t kMostHeaderBytes = 1 << 20;

Shard ShardOf(const std::string& tensor, TensorKind kind, const std::vector<std::int64_t>& shape, BufferSetId states) {
  Shard shard;
  shard.tensor = tensor;
  shard.kind = kind;
  shard.shape = shape;
  shard.states = states;
  return shard;
}

std::int64_t ElementsOf(const std::vector<std::int64_t>& shape) {
  std::int64_t elements = 1;
  for (const std::int64_t length : shape) elements *= length;
  return elements;
}

// A tensor's bytes at `begin` of the file as a shard with one state.
void AddTensor(Storage& storage, FileId file, std::uint64_t begin, DType dtype, const std::string& name,
               TensorKind kind, const std::vector<std::int64_t>& shape) {
  const std::int64_t elements = ElementsOf(shape);
  const auto bytes = static_cast<std::uint64_t>(elements * ItemBytes(dtype));
  const RecordId record = storage.Add(Record{file, begin, bytes, std::nullopt});
  const BufferId buffer = storage.Add(Buffer{dtype, elements, {{record, 0, elements}}});
  storage.shards.push_back(ShardOf(name, kind, shape, storage.Add(BufferSet{{kWeightState, buffer}})));
}

class ToyFormat : public Format {
 public:
  std::string_view name() const override { return "toy"; }
  StrategyRules strategy_rules() const override { return {.settings = {}, .help = "toy for the weights of a model"}; }

  llvm::Expected<bool> IsCheckpoint(ReadableFileSystem& files, const std::string& folder) const override {
    UCP_ASSIGN_OR_RETURN(const PathKind kind, files.Kind(JoinPath(folder, kHeaderFile)));
    return kind == PathKind::kFile;
  }
  llvm::Expected<std::optional<std::string>> MeantByFile(ReadableFileSystem&, const std::string& path) const override {
    const std::filesystem::path file = path;
    if (!MayHaveFile(file.filename().string())) return std::nullopt;
    return file.parent_path().string();
  }
  bool MayHaveFile(std::string_view path) const override { return path == kHeaderFile || path == kDataFile; }
  std::vector<std::string_view> file_endings() const override { return {kHeaderFile, kDataFile}; }
  bool HasHeader(std::string_view path) const override { return path.ends_with(kHeaderFile); }
  llvm::Error ReadHeader(const ReadableFile& file) const override {
    std::string text(file.bytes(), '\0');
    return file.ReadAt(0, std::as_writable_bytes(std::span(text)));
  }

  llvm::Expected<Checkpoint> Describe(ReadableFileSystem& files, const std::string& folder, const RankPreference&,
                                      unsigned) const override {
    UCP_ASSIGN_OR_RETURN(const std::string header,
                         ReadWholeFile(files, JoinPath(folder, kHeaderFile), kMostHeaderBytes));
    UCP_ASSIGN_OR_RETURN(const FileStatus data, files.Status(JoinPath(folder, kDataFile)));
    Checkpoint checkpoint;
    checkpoint.training.ranks.emplace_back();
    Inventory& inventory = checkpoint.inventory;
    inventory.format = name();
    inventory.root = folder;
    inventory.cuts = WholeTensors{};
    inventory.storage.Add(StoredFile{kHeaderFile, header.size(), ContentHash(header)});
    const FileId file = inventory.storage.Add(StoredFile{kDataFile, data.bytes, ContentHash("")});
    std::istringstream lines(header);
    std::getline(lines, checkpoint.training.tag);
    for (std::string line; std::getline(lines, line);) UCP_RETURN_IF_ERROR(AddLine(line, file, data.bytes, inventory));
    return checkpoint;
  }

  bool HoldsWeightsAlone(const Strategy&) const override { return true; }

  llvm::Expected<TargetFiles> LayOut(const TargetRequest& request) const override {
    TargetFiles target;
    target.format = name();
    target.weights_only = true;
    std::string header = request.training.tag + "\n";
    std::uint64_t end = 0;
    const FileId data = target.storage.Add(StoredFile{kDataFile, 0, ""});
    for (const LogicalTensor& tensor : request.tensors) {
      const DType dtype = tensor.weight.value_or(tensor.states.back().name == kWeightState ? tensor.states.back().dtype
                                                                                           : DType::kFloat32);
      AddTensor(target.storage, data, end, dtype, tensor.name, tensor.kind, tensor.shape);
      header += fmt::format("{} {} {}", Name(dtype), end, tensor.shape.size());
      for (const std::int64_t length : tensor.shape) header += fmt::format(" {}", length);
      header += fmt::format(" {}\n", tensor.name);
      end += static_cast<std::uint64_t>(ElementsOf(tensor.shape) * ItemBytes(dtype));
    }
    target.storage.files[data.index()].bytes = end;
    const FileId file = target.storage.Add(StoredFile{kHeaderFile, header.size(), ""});
    target.placements.push_back({file, 0, target.AddBlob(std::move(header))});
    return target;
  }

 private:
  static llvm::Error AddLine(const std::string& line, FileId file, std::uint64_t data_bytes, Inventory& inventory) {
    std::istringstream words(line);
    std::string dtype_name;
    std::uint64_t begin = 0;
    std::size_t rank = 0;
    words >> dtype_name >> begin >> rank;
    std::vector<std::int64_t> shape;
    for (std::int64_t length = 0; shape.size() < rank && words >> length;) shape.push_back(length);
    std::string tensor;
    words >> tensor;
    const std::optional<DType> dtype = DTypeFromName(dtype_name);
    const bool fits = dtype && words && begin <= data_bytes;
    if (!fits) return Fail(ErrorCode::kBadData, "`{}` in `{}` is not the line of a tensor", line, kHeaderFile);
    AddTensor(inventory.storage, file, begin, *dtype, tensor, TensorKind::kFrozen, shape);
    return llvm::Error::success();
  }
};

}  // namespace

std::unique_ptr<const Format> MakeToyFormat() { return std::make_unique<ToyFormat>(); }

}  // namespace ucp

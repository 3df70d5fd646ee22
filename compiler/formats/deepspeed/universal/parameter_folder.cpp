#include "compiler/formats/deepspeed/universal/parameter_folder.h"

#include "compiler/formats/deepspeed/common/expert_names.h"
#include "compiler/formats/deepspeed/common/model_states.h"
#include "compiler/formats/pytorch/values/value_access.h"
#include "compiler/support/error.h"

namespace ucp::universal {
namespace {

// Row-major elements may be seen in any shape that has as many.
bool CanBeSeenAs(const TensorPlace& place, const std::vector<std::int64_t>& shape) {
  std::int64_t elements = 1;
  for (std::int64_t size : shape) {
    if (__builtin_mul_overflow(elements, size, &elements)) return false;
  }
  return place.strides.empty() && elements == place.elements;
}

class FolderReader {
 public:
  FolderReader(SourceArchives& archives, const std::vector<std::int64_t>* shape, ParameterFolder& parameter)
      : archives_(archives), known_shape_(shape), parameter_(parameter) {}

  llvm::Error ReadFile(const std::string& file) {
    UCP_ASSIGN_OR_RETURN(SourceArchive archive, archives_.Open(parameter_.path + "/" + file));
    const std::string state = file.substr(0, file.size() - 3);
    if (state == "step") {
      UCP_ASSIGN_OR_RETURN(parameter_.step, archives_.Keep(archive, archive.archive.root(), "the step"));
      return llvm::Error::success();
    }
    UCP_ASSIGN_OR_RETURN(TensorPlace place, PlaceOfState(archive, state));
    if (!parameter_.states.empty() && place.sizes != parameter_.shape) {
      return Fail(ErrorCode::kBadData, "`{}` has shape {}, and `{}.pt` beside it {}", archive.readable->path(),
                  ShapeText(place.sizes), parameter_.states.begin()->first, ShapeText(parameter_.shape));
    }
    parameter_.shape = place.sizes;
    parameter_.states.emplace(state, std::move(place));
    return llvm::Error::success();
  }

 private:
  llvm::Expected<TensorPlace> PlaceOfState(const SourceArchive& archive, const std::string& state) {
    const std::string& path = archive.readable->path();
    const pytorch::Value& root = archive.root();
    if (state == kWeightState) {
      return Fail(ErrorCode::kUnsupported, "`{}`: a state of this name is not one of an optimizer", path);
    }
    if (pytorch::Find(root, "folding")) {
      return Fail(ErrorCode::kUnsupported,
                  "`{}` is of experts that AutoEP spreads beside tensor parallelism, which this version does not read",
                  path);
    }
    pytorch::ValuePtr param = pytorch::Find(root, "param");
    const bool is_bare = root.As<pytorch::Tensor>() != nullptr;
    const auto* tensor = is_bare ? root.As<pytorch::Tensor>() : (param ? param->As<pytorch::Tensor>() : nullptr);
    if (tensor == nullptr) {
      return Fail(ErrorCode::kBadData, "`{}` holds neither a tensor nor a dict with the tensor `param`", path);
    }
    TensorPlace place = archives_.PlaceOf(archive, *tensor);
    UCP_RETURN_IF_ERROR(CheckExperts(root, place, path));
    const bool has_own_shape = !is_bare && !pytorch::Find(root, "sub_param_shape");
    if (has_own_shape) return place;
    if (known_shape_ != nullptr && CanBeSeenAs(place, *known_shape_)) {
      place.sizes = *known_shape_;
    } else if (is_bare && known_shape_ != nullptr) {
      return Fail(ErrorCode::kBadData, "`{}` has {} elements, and the model-states file gives the shape {}", path,
                  place.elements, ShapeText(*known_shape_));
    } else if (is_bare) {
      return Fail(
          ErrorCode::kUnsupported,
          "`{}` is a bare vector of {} elements, as stage 3 writes it, and no model-states file tells its shape", path,
          place.elements);
    }
    return place;
  }

  // AutoEP's tensors say how many experts they have.
  llvm::Error CheckExperts(const pytorch::Value& root, const TensorPlace& place, const std::string& path) {
    pytorch::ValuePtr mark = pytorch::Find(root, "is_expert_param");
    if (!mark || !pytorch::AsBool(*mark).value_or(false) || ParseExpertName(parameter_.name)) {
      return llvm::Error::success();  // Those of DeepSpeed's own layer: expert_files.h.
    }
    pytorch::ValuePtr count = pytorch::Find(root, "ep_num_experts");
    const std::int64_t experts = count ? pytorch::AsInteger(*count).value_or(-1) : -1;
    if (place.sizes.empty() || place.sizes.front() != experts) {
      return Fail(ErrorCode::kBadData, "`{}` has the shape {}, and {} as `ep_num_experts`", path,
                  ShapeText(place.sizes), count ? pytorch::Print(*count) : "nothing");
    }
    parameter_.is_fused = true;
    return llvm::Error::success();
  }

  SourceArchives& archives_;
  const std::vector<std::int64_t>* known_shape_;
  ParameterFolder& parameter_;
};

}  // namespace

llvm::Expected<ParameterFolder> ReadParameterFolder(ReadableFileSystem& files, const std::string& root,
                                                    SourceArchives& archives, const std::string& name,
                                                    const std::vector<std::int64_t>* shape) {
  ParameterFolder parameter;
  parameter.name = name;
  parameter.path = "zero/" + name;
  UCP_ASSIGN_OR_RETURN(std::vector<DirectoryEntry> entries, files.List(JoinPath(root, parameter.path)));
  FolderReader reader(archives, shape, parameter);
  for (const DirectoryEntry& entry : entries) {
    const bool is_state = !entry.is_directory && entry.name.size() > 3 && entry.name.ends_with(".pt");
    if (is_state) UCP_RETURN_IF_ERROR(reader.ReadFile(entry.name));
  }
  if (parameter.states.contains(kMasterState)) return parameter;
  return Fail(ErrorCode::kBadData, "`{}/{}/fp32.pt` is missing; was the folder written to its end?", root,
              parameter.path);
}

}  // namespace ucp::universal

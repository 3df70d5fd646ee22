#include "runtime/formats/deepspeed/write/foreign_objects.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <llvm/ADT/DenseSet.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <set>
#include <string_view>

#include "runtime/formats/pytorch/value_access.h"
#include "runtime/formats/pytorch/value_walk.h"

namespace ucp::deepspeed {
namespace {

using pytorch::Entry;
using pytorch::Value;
using pytorch::ValuePtr;

// Containers and numbers, in the spelling of protocol 2 and in today's. None of them runs what it is given.
constexpr std::array<std::string_view, 41> kKnown = {"argparse.Namespace",
                                                     "collections.OrderedDict",
                                                     "collections.defaultdict",
                                                     "collections.Counter",
                                                     "collections.deque",
                                                     "_codecs.encode",
                                                     "__builtin__.set",
                                                     "__builtin__.frozenset",
                                                     "__builtin__.list",
                                                     "__builtin__.dict",
                                                     "__builtin__.tuple",
                                                     "__builtin__.int",
                                                     "__builtin__.float",
                                                     "__builtin__.str",
                                                     "__builtin__.bool",
                                                     "__builtin__.complex",
                                                     "__builtin__.bytearray",
                                                     "__builtin__.xrange",
                                                     "__builtin__.slice",
                                                     "builtins.set",
                                                     "builtins.frozenset",
                                                     "builtins.list",
                                                     "builtins.dict",
                                                     "builtins.tuple",
                                                     "builtins.int",
                                                     "builtins.float",
                                                     "builtins.str",
                                                     "builtins.bool",
                                                     "builtins.complex",
                                                     "builtins.bytearray",
                                                     "builtins.range",
                                                     "builtins.slice",
                                                     "torch.Size",
                                                     "torch.device",
                                                     "numpy.ndarray",
                                                     "numpy.dtype",
                                                     "numpy.core.multiarray._reconstruct",
                                                     "numpy.core.multiarray.scalar",
                                                     "numpy._core.multiarray._reconstruct",
                                                     "numpy._core.multiarray.scalar",
                                                     "deepspeed.utils.tensor_fragment.fragment_address"};

// DeepSpeed's own classes: a pickle makes them without calling their constructors, but for members of enums.
bool IsClassOfDeepSpeed(const pytorch::Global& global) {
  return global.module.starts_with("deepspeed.") && !global.name.empty() &&
         std::isupper(static_cast<unsigned char>(global.name[0])) != 0 && global.name.find('.') == std::string::npos;
}

bool IsKnown(const Value& value, const pytorch::Global& global) {
  const std::string name = global.module + "." + global.name;
  return std::find(kKnown.begin(), kKnown.end(), name) != kKnown.end() || pytorch::AsDType(value) ||
         IsClassOfDeepSpeed(global);
}

// `getattr(ZeroStageEnum, 'gradients')`, as some versions of Python pickle a member of an enum.
bool IsMemberOfKnownEnum(const pytorch::Call& call) {
  const auto* function = call.callable->As<pytorch::Global>();
  const bool is_getattr = function != nullptr && function->name == "getattr" &&
                          (function->module == "builtins" || function->module == "__builtin__");
  const auto* arguments = call.arguments->As<pytorch::Tuple>();
  if (!is_getattr || arguments == nullptr || arguments->items.size() != 2) return false;
  const auto* owner = arguments->items[0]->As<pytorch::Global>();
  return owner != nullptr && owner->name == "ZeroStageEnum" && IsClassOfDeepSpeed(*owner) &&
         pytorch::AsText(*arguments->items[1]);
}

// A class of DeepSpeed's is made and filled; only an enum's is called.
bool CallsDeepSpeed(const pytorch::Call& call) {
  const auto* callable = call.callable->As<pytorch::Global>();
  return callable != nullptr && IsClassOfDeepSpeed(*callable) && call.form == pytorch::Call::Form::kReduce &&
         callable->name != "ZeroStageEnum";
}

class Filter {
 public:
  Filter(std::span<const std::string> keep, std::vector<std::string>& remarks) : keep_(keep), remarks_(remarks) {}

  std::vector<Entry> Entries(const std::vector<Entry>& entries, const std::string& what) {
    std::vector<Entry> kept;
    for (const Entry& entry : entries) {
      auto key = pytorch::AsText(*entry.key);
      const std::string name = what + (key ? std::string(*key) : pytorch::Print(*entry.key));
      if (pytorch::ClassName(*entry.value) == "argparse.Namespace" && !Foreign(*entry.value).empty()) {
        kept.push_back({entry.key, Namespace(entry.value, name)});
      } else if (!Drops(*entry.value, name)) {
        kept.push_back(entry);
      }
    }
    return kept;
  }

  // Whether a value goes. All ranks usually hold the same, and one sentence is enough.
  bool Drops(const Value& value, const std::string& name) {
    const std::set<std::string> foreign = Foreign(value);
    if (foreign.empty()) return false;
    std::string remark = fmt::format(
        "`{}` is dropped: it holds objects of {}, and loading them runs the code of their modules; --keep-opaque keeps "
        "them",
        name, fmt::join(foreign, ", "));
    if (std::find(remarks_.begin(), remarks_.end(), remark) == remarks_.end()) remarks_.push_back(std::move(remark));
    return true;
  }

  // Classes in it that are neither known nor kept.
  std::set<std::string> Foreign(const Value& root) const {
    std::set<std::string> foreign;
    llvm::DenseSet<const Value*> seen;
    std::vector<const Value*> visits = {&root};
    auto add = [&](const pytorch::Global& global) {
      std::string name = global.module + "." + global.name;
      if (std::find(keep_.begin(), keep_.end(), name) == keep_.end()) foreign.insert(std::move(name));
    };
    while (!visits.empty()) {
      const Value* value = visits.back();
      visits.pop_back();
      if (!seen.insert(value).second) continue;
      const auto* call = value->As<pytorch::Call>();
      if (call != nullptr && IsMemberOfKnownEnum(*call)) continue;
      if (call != nullptr && CallsDeepSpeed(*call)) add(*call->callable->As<pytorch::Global>());
      const auto* global = value->As<pytorch::Global>();
      if (global != nullptr && !IsKnown(*value, *global)) add(*global);
      pytorch::AppendChildren(*value, visits);
    }
    return foreign;
  }

 private:
  ValuePtr Namespace(const ValuePtr& value, const std::string& name) {
    pytorch::Call object = *value->As<pytorch::Call>();
    if (const auto* attributes = pytorch::Attributes(*value)) {
      object.state = pytorch::MakeDict(Entries(*attributes, name + "."));
    }
    return pytorch::MakeCall(std::move(object));
  }

  std::span<const std::string> keep_;
  std::vector<std::string>& remarks_;
};

}  // namespace

TrainingState WithoutForeignObjects(TrainingState training, std::span<const std::string> keep,
                                    std::vector<std::string>& remarks) {
  Filter filter(keep, remarks);
  for (OptimizerGroup& group : training.groups) {
    group.hyper_parameters =
        pytorch::MakeDict(filter.Entries(*pytorch::Entries(*group.hyper_parameters), "param_groups."));
    if (group.step && filter.Drops(*group.step, "step")) group.step = nullptr;
  }
  training.optimizer = filter.Entries(training.optimizer, "optimizer_state_dict.");
  training.engine = filter.Entries(training.engine, "");
  for (LooseState& state : training.loose_states) {
    const std::set<std::string> foreign = filter.Foreign(*state.value);
    if (foreign.empty()) continue;
    state.why_not_carried =
        fmt::format("it holds objects of {}, whose modules loading them would run; --keep-opaque keeps them",
                    fmt::join(foreign, ", "));
  }
  for (RankState& rank : training.ranks) {
    rank.client = filter.Entries(rank.client, "");
    rank.module_extras = filter.Entries(rank.module_extras, "module.");
  }
  return training;
}

}  // namespace ucp::deepspeed

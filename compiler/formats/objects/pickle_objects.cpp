// Each object that the pickle makes is judged by itself, whether or not it is still there at the end: its form, and
// what stands in its open parts up to the next objects, which have a turn of their own. The rest at the end is looked
// at from its root, for classes that stand as values.
#include "compiler/formats/objects/pickle_objects.h"

#include <llvm/ADT/DenseSet.h>

#include <algorithm>
#include <array>
#include <vector>

#include "compiler/formats/objects/call_text.h"
#include "compiler/formats/objects/object_forms.h"
#include "compiler/formats/pytorch/values/tensor_forms.h"
#include "compiler/formats/pytorch/values/torch_names.h"
#include "compiler/formats/pytorch/values/value_walk.h"

namespace ucp::objects {
namespace {

using pytorch::Global;
using pytorch::MadeObject;
using pytorch::Value;

// Names in the pickles of tensors, which are read by their meaning: a call of one is a tensor or is not known.
bool IsOfTensors(const Global& global) {
  constexpr std::array<std::string_view, 5> kClasses = {"_codecs.encode", "torch.Tensor", "torch._tensor.Tensor",
                                                        "torch.nn.parameter.Buffer", "torch.nn.parameter.Parameter"};
  const std::string name = NameOf(global);
  if (std::find(kClasses.begin(), kClasses.end(), name) != kClasses.end()) return true;
  const bool is_storage = global.module == "torch" || global.module == "torch.storage" || global.module == "torch.cuda";
  return pytorch::MakesTensor(global) || name == "numpy.ndarray" ||
         (is_storage && (global.name == "UntypedStorage" || global.name == "TypedStorage" ||
                         pytorch::StorageClassDType(global.name)));
}

class Judge {
 public:
  Judge(const KnownObjects& known, FileObjects& found) : known_(known), found_(found) {}

  void Add(const MadeObject& made) {
    if (made.callable != nullptr) return AddCall(made);
    const auto& global = *made.value->As<Global>();
    FoundObject& object = found_.by_name[ObjectName(*made.value)];
    ++object.named;
    if (!known_.KnowsName(global) && !IsOfTensors(global)) Mark(object, CallText(*made.value));
  }

  // The value that is there at the end.
  void AddRoot(const Value& root) { AddBelow(root); }

 private:
  void AddCall(const MadeObject& made) {
    FoundObject& object = found_.by_name[ObjectName(*made.callable)];
    ++object.called;
    if (!known_.IsKnown(*made.value)) {
      if (object.called == 1) object.calls.clear();  // A call says more than the name that it looks up.
      return Mark(object, CallText(*made.value));
    }
    std::vector<const Value*> open;
    known_.AppendOpen(*made.value, open);
    for (const Value* value : open) AddBelow(*value);
  }

  void AddBelow(const Value& root) {
    std::vector<const Value*> visits = {&root};
    while (!visits.empty()) {
      const Value* value = visits.back();
      visits.pop_back();
      if (value->As<Global>() != nullptr && !known_.IsKnown(*value)) {
        Mark(found_.by_name[ObjectName(*value)], CallText(*value));
      }
      const bool has_own_turn = value->As<pytorch::Call>() != nullptr || value->As<pytorch::Tensor>() != nullptr;
      if (has_own_turn || !pytorch::IsContainer(*value) || !seen_.insert(value).second) continue;
      pytorch::AppendChildren(*value, visits);
    }
  }

  static void Mark(FoundObject& object, std::string calls) {
    if (object.calls.empty()) object.calls = std::move(calls);
    object.is_known = false;
  }

  const KnownObjects& known_;
  FileObjects& found_;
  llvm::DenseSet<const Value*> seen_;
};

}  // namespace

void AddObjectsOf(const pytorch::PickleScan& scan, const KnownObjects& known, FileObjects& found) {
  Judge judge(known, found);
  for (const MadeObject& made : scan.made()) judge.Add(made);
  if (scan.root() != nullptr) judge.AddRoot(*scan.root());
  if (found.odd_instruction.empty()) found.odd_instruction = scan.odd_instruction();
}

}  // namespace ucp::objects

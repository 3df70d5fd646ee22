#include "compiler/formats/deepspeed/universal/cut_rules.h"

#include <algorithm>

#include "compiler/formats/deepspeed/common/cut_runs.h"

namespace ucp::universal {
namespace {

using pytorch::Entry;
using pytorch::MakeBool;
using pytorch::MakeInteger;
using pytorch::MakeText;
using pytorch::ValuePtr;

// The loader's own class; it views the parameter in this shape, in which the cut dimension is a tuple of parts.
ValuePtr SubparamShape(const LogicalTensor& tensor, const CutRule& rule) {
  std::vector<ValuePtr> shape;
  for (std::int64_t size : tensor.shape) shape.push_back(MakeInteger(size));
  std::vector<ValuePtr> parts;
  for (std::int64_t part : rule.parts) parts.push_back(MakeInteger(part));
  shape[static_cast<std::size_t>(rule.cat_dim)] = pytorch::MakeTuple(std::move(parts));
  pytorch::Call call;
  call.form = pytorch::Call::Form::kNewObject;
  call.callable = pytorch::MakeGlobal("deepspeed.checkpoint.universal_checkpoint", "SubparamShape");
  call.arguments = pytorch::MakeTuple({});
  call.state = pytorch::MakeDict({{MakeText("patterns"), pytorch::MakeList({MakeText(tensor.name)})},
                                  {MakeText("shape"), pytorch::MakeTuple(std::move(shape))},
                                  {MakeText("partition_dim"), MakeInteger(rule.cat_dim)}});
  return pytorch::MakeCall(std::move(call));
}

}  // namespace

CutRule CutRuleOf(const LogicalTensor& tensor) {
  CutRule rule;
  if (tensor.dims.size() != tensor.shape.size()) return rule;
  const auto cut = FindCut(tensor.dims);
  if (!cut) return rule;
  rule.cat_dim = static_cast<std::int64_t>(cut->dim);
  for (const CutRun& run : cut->runs) rule.parts.push_back(run.length);
  rule.is_vocabulary = cut->IsPaddedVocabulary(tensor.dims.size());
  return rule;
}

std::vector<Entry> CutEntries(const LogicalTensor& tensor) {
  const CutRule rule = CutRuleOf(tensor);
  std::vector<Entry> entries;
  if (rule.parts.empty()) return entries;
  const auto count = static_cast<std::int64_t>(rule.parts.size());
  const bool are_equal = std::count(rule.parts.begin(), rule.parts.end(), rule.parts.front()) == count;
  if (are_equal) {
    entries.push_back({MakeText("cat_dim"), MakeInteger(rule.cat_dim)});
    if (count > 1) entries.push_back({MakeText("param_n_sub_params"), MakeInteger(count)});
  } else {
    entries.push_back({MakeText("sub_param_shape"), SubparamShape(tensor, rule)});
  }
  if (rule.is_vocabulary) entries.push_back({MakeText("vocab_tensor"), MakeBool(true)});
  return entries;
}

}  // namespace ucp::universal

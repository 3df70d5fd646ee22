#include "compiler/trial/part_positions.h"

#include <algorithm>
#include <map>
#include <optional>

#include "compiler/bind/values/evaluate_formula.h"

namespace ucp::oracle {
namespace {

// One place: its part, if a label names it, and where it is along each factor.
struct Place {
  std::string part;
  std::map<std::string, std::int64_t> factors;
};
using Places = std::vector<Place>;

class Reader {
 public:
  Reader(const BoundSpec& bound, const BoundTensor& tensor)
      : spec_(bound.spec), counters_(tensor.counters), values_{bound.spec, bound.dims, mesh_, bound.facts} {}

  bool sound = true;

  Places Of(const Formula& formula) {
    if (!formula.label.empty()) return OfLabelled(formula);
    switch (formula.kind) {
      case Formula::Kind::kCut:
      case Formula::Kind::kPad:
        return Of(formula.operands[0]);
      case Formula::Kind::kSum: {
        Places all;
        for (const Formula& operand : formula.operands) {
          for (Place& place : Of(operand)) all.push_back(std::move(place));
        }
        return all;
      }
      case Formula::Kind::kProduct: {
        Places all = {Place{}};
        for (const Formula& operand : formula.operands) all = Product(all, Of(operand));
        return all;
      }
      case Formula::Kind::kDim:
        return OfDim(formula.index);
      default:
        return Places(static_cast<std::size_t>(NumberOf(formula)));
    }
  }

  Places Product(const Places& outer, const Places& inner) {
    Places all;
    for (const Place& a : outer) {
      for (const Place& b : inner) {
        Place place = a;
        sound = sound && (a.part.empty() || b.part.empty());
        if (!b.part.empty()) place.part = b.part;
        for (const auto& [name, at] : b.factors) sound = place.factors.emplace(name, at).second && sound;
        all.push_back(std::move(place));
      }
    }
    return all;
  }

  // The names of a part's factors, in order.
  std::vector<std::string> FactorsOf(const std::string& part) {
    std::vector<std::string> names;
    for (const PartDeclaration& declared : spec_.model->parts) {
      if (declared.name != part) continue;
      for (const Formula& dim : declared.dims) AddNames(dim, names);
    }
    return names;
  }

 private:
  bool IsPart(const std::string& name) const {
    return std::ranges::any_of(spec_.model->parts, [&](const PartDeclaration& part) { return part.name == name; });
  }

  Places OfLabelled(const Formula& formula) {
    Formula inner = formula;
    inner.label.clear();
    Places places = Of(inner);
    for (std::size_t i = 0; i < places.size(); ++i) {
      if (IsPart(formula.label)) {
        places[i].part = formula.label;
      } else {
        places[i] = {"", {{formula.label, static_cast<std::int64_t>(i)}}};
      }
    }
    return places;
  }

  // Dims of which this one is the product, or itself.
  std::vector<std::size_t> AtomsOf(std::size_t dim) const {
    const std::optional<Formula>& definition = spec_.dims[dim].definition;
    const bool is_product = definition && definition->kind == Formula::Kind::kProduct && !spec_.dims[dim].condition;
    if (!is_product) return {dim};
    std::vector<std::size_t> atoms;
    for (std::size_t i = 0; i < definition->operands.size(); ++i) {
      const bool is_dim = definition->operands[i].kind == Formula::Kind::kDim;
      if (!is_dim || definition->operators[i] != Formula::Operator::kTimes) return {dim};
      for (const std::size_t atom : AtomsOf(definition->operands[i].index)) atoms.push_back(atom);
    }
    return atoms;
  }

  Places OfDim(std::size_t dim) {
    Places all = {Place{}};
    for (const std::size_t atom : AtomsOf(dim)) {
      Places row;
      for (std::int64_t i = 0; i < values_.dims[atom]->value; ++i) row.push_back({"", {{spec_.dims[atom].name, i}}});
      all = Product(all, row);
    }
    return all;
  }

  std::int64_t NumberOf(const Formula& formula) {
    DiagnosticSink unseen;
    const std::optional<std::int64_t> number = Evaluate(formula, values_, counters_, unseen);
    sound = sound && number;
    return number.value_or(0);
  }

  void AddNames(const Formula& dim, std::vector<std::string>& names) {
    if (!dim.label.empty()) return names.push_back(dim.label);
    if (dim.kind == Formula::Kind::kDim) {
      for (const std::size_t atom : AtomsOf(dim.index)) names.push_back(spec_.dims[atom].name);
    }
    for (const Formula& operand : dim.operands) AddNames(operand, names);
  }

  const CheckedSpec& spec_;
  const std::vector<std::int64_t>& counters_;
  const Mesh mesh_;
  const Values values_;
};

}  // namespace

std::vector<PartElement> PartElementsOf(const BoundSpec& bound, const BoundTensor& tensor) {
  const TensorDeclaration& declaration = bound.spec.tensors[tensor.declaration];
  Reader reader(bound, tensor);
  Places places = {Place{declaration.part, {}}};
  for (std::size_t c = 0; c < tensor.counters.size(); ++c) {
    const Places counted = reader.Of(declaration.name.counters[c].count);
    places = reader.Product(places, {counted[static_cast<std::size_t>(tensor.counters[c])]});
  }
  for (const Formula& dim : declaration.dims) places = reader.Product(places, reader.Of(dim));
  std::map<std::string, std::vector<std::string>> factors;
  std::vector<PartElement> elements;
  for (const Place& place : places) {
    const auto [names, is_new] = factors.try_emplace(place.part);
    if (is_new) names->second = reader.FactorsOf(place.part);
    PartElement& element = elements.emplace_back(place.part);
    for (const std::string& name : names->second) {
      const auto at = place.factors.find(name);
      if (at == place.factors.end()) return {};
      element.index.push_back(at->second);
    }
    reader.sound = reader.sound && names->second.size() == place.factors.size();
  }
  return reader.sound ? elements : std::vector<PartElement>{};
}

}  // namespace ucp::oracle

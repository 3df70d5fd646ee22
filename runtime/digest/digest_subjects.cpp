#include "runtime/digest/digest_subjects.h"

#include <algorithm>

namespace ucp {
namespace {

constexpr std::uint32_t kNone = 0xffffffff;

}  // namespace

DigestSubjects::DigestSubjects(const Plan& plan) : plan_(plan) {
  for (std::uint32_t w = 0; w < plan.writes.size(); ++w) {
    if (plan.writes[w].fused && plan.writes[w].fused->is_tensor) own_.push_back(w);
  }
  if (own_.empty()) return;
  const std::vector<std::uint32_t> writes = own_;
  const auto name_of = [&](std::uint32_t w) -> const std::string& { return plan.writes[w].fused->name; };
  std::ranges::stable_sort(own_, {}, name_of);
  const auto same = std::ranges::unique(own_, {}, name_of);
  own_.erase(same.begin(), same.end());
  own_of_write_.resize(plan.writes.size(), kNone);
  for (const std::uint32_t w : writes) {
    own_of_write_[w] =
        static_cast<std::uint32_t>(std::ranges::lower_bound(own_, name_of(w), {}, name_of) - own_.begin());
  }
}

const std::string& DigestSubjects::NameOf(TensorId subject) const {
  if (subject.index() < plan_.tensors.size()) return plan_.tensor(subject).logical.name;
  return plan_.writes[own_[subject.index() - plan_.tensors.size()]].fused->name;
}

const std::vector<std::int64_t>& DigestSubjects::ShapeOf(TensorId subject) const {
  if (subject.index() < plan_.tensors.size()) return plan_.tensor(subject).logical.shape;
  return plan_.writes[own_[subject.index() - plan_.tensors.size()]].fused->ShapeOfTensor();
}

TensorId DigestSubjects::TensorOf(TensorId subject) const {
  if (subject.index() < plan_.tensors.size()) return subject;
  return plan_.writes[own_[subject.index() - plan_.tensors.size()]].first_tensor();
}

std::optional<TensorId> DigestSubjects::OwnOf(std::size_t write) const {
  if (own_of_write_.empty() || own_of_write_[write] == kNone) return std::nullopt;
  return TensorId(plan_.tensors.size() + own_of_write_[write]);
}

}  // namespace ucp

// Eight bits of one sum at a time: of the vectors found so far those that also fit the next eight bits are kept and
// reduced. So numbers stay small enough for floating point.
#include "tests/unit/runtime/digest/lattice.h"

#include <bit>
#include <cmath>
#include <utility>

namespace ucp {
namespace {

constexpr int kStepBits = 8;

class Reduction {
 public:
  explicit Reduction(std::vector<IntegerVector>& basis)
      : basis_(basis), r_(basis.size(), std::vector<double>(basis.size())), mu_(r_) {}

  void Run() {
    Orthogonalise(0);
    for (std::size_t k = 1; k < basis_.size();) {
      while (SubtractEarlier(k)) {
      }
      const double mu = mu_[k][k - 1];
      if (r_[k][k] >= (0.99 - mu * mu) * r_[k - 1][k - 1]) {
        ++k;
      } else {
        std::swap(basis_[k], basis_[k - 1]);
        k = k > 1 ? k - 1 : 1;
        Orthogonalise(k - 1);
      }
    }
  }

 private:
  void Orthogonalise(std::size_t k) {
    for (std::size_t j = 0; j <= k; ++j) {
      double product = 0;
      for (std::size_t i = 0; i < basis_[k].size(); ++i) {
        product += static_cast<double>(basis_[k][i]) * static_cast<double>(basis_[j][i]);
      }
      for (std::size_t i = 0; i < j; ++i) product -= mu_[j][i] * r_[k][i];
      r_[k][j] = product;
      mu_[k][j] = product / r_[j][j];
    }
  }

  bool SubtractEarlier(std::size_t k) {
    Orthogonalise(k);
    bool has_changed = false;
    for (std::size_t j = k; j-- > 0;) {
      if (std::abs(mu_[k][j]) < 0.51) continue;  // A half would turn into a half for ever.
      const double times = std::round(mu_[k][j]);
      has_changed = true;
      for (std::size_t i = 0; i < basis_[k].size(); ++i) {
        basis_[k][i] -= static_cast<std::int64_t>(times) * basis_[j][i];
      }
      for (std::size_t i = 0; i < j; ++i) mu_[k][i] -= times * mu_[j][i];
      mu_[k][j] -= times;
    }
    return has_changed;
  }

  std::vector<IntegerVector>& basis_;
  std::vector<std::vector<double>> r_;
  std::vector<std::vector<double>> mu_;
};

// The inverse of an odd number modulo 2^64 (Newton's iteration doubles the bits that are right).
std::uint64_t InverseOf(std::uint64_t odd) {
  std::uint64_t inverse = odd;
  for (int i = 0; i < 6; ++i) inverse *= 2 - odd * inverse;
  return inverse;
}

// Of the basis, what fits `bits` of one sum: `left` is what each vector's sum has there.
void KeepThoseThatFit(std::vector<IntegerVector>& basis, const std::vector<std::uint64_t>& left) {
  constexpr std::uint64_t kMask = (std::uint64_t{1} << kStepBits) - 1;
  std::size_t pivot = basis.size();
  int zeros = kStepBits;
  for (std::size_t i = 0; i < basis.size(); ++i) {
    if ((left[i] & kMask) == 0 || std::countr_zero(left[i]) >= zeros) continue;
    pivot = i;
    zeros = std::countr_zero(left[i]);
  }
  if (pivot == basis.size()) return;
  const std::uint64_t inverse = InverseOf(left[pivot] >> zeros);
  const std::int64_t whole = std::int64_t{1} << (kStepBits - zeros);
  for (std::size_t i = 0; i < basis.size(); ++i) {
    if (i == pivot) continue;
    auto times = static_cast<std::int64_t>((left[i] >> zeros) * inverse & static_cast<std::uint64_t>(whole - 1));
    if (times > whole / 2) times -= whole;
    for (std::size_t j = 0; j < basis[i].size(); ++j) basis[i][j] -= times * basis[pivot][j];
  }
  for (std::int64_t& number : basis[pivot]) number *= whole;
}

}  // namespace

std::vector<IntegerVector> ShortRelations(const std::vector<std::vector<std::uint64_t>>& numbers) {
  std::vector<IntegerVector> basis(numbers.size(), IntegerVector(numbers.size(), 0));
  for (std::size_t i = 0; i < basis.size(); ++i) basis[i][i] = 1;
  for (std::size_t sum = 0; sum < numbers.front().size(); ++sum) {
    for (int bits = 0; bits < 64; bits += kStepBits) {
      std::vector<std::uint64_t> left(basis.size(), 0);
      for (std::size_t i = 0; i < basis.size(); ++i) {
        for (std::size_t j = 0; j < numbers.size(); ++j) {
          left[i] += static_cast<std::uint64_t>(basis[i][j]) * numbers[j][sum];
        }
        left[i] >>= bits;
      }
      KeepThoseThatFit(basis, left);
      Reduction(basis).Run();
    }
  }
  return basis;
}

}  // namespace ucp

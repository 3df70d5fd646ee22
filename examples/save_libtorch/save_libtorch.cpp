// On the ranks of an MPI job, trains a small model of LibTorch and saves it while it trains on. Then it loads what was
// saved, and compares:
//   mpirun -n 2 save_libtorch checkpoints/step-3
// All ranks hold the model, and each its rows of a table. Replicas are written once, by one of the ranks.
#include <mpi.h>
#include <torch/torch.h>
#include <ucp/mpi.h>
#include <ucp/save.h>
#include <ucp/torch.h>

#include <iostream>
#include <map>
#include <string>
#include <vector>

namespace {

constexpr std::int64_t kRowsOfRank = 3;
constexpr int kSteps = 6;
constexpr int kSavedStep = 3;

// A state of the job: where it stands in the checkpoint, and the tensor.
struct Named {
  std::string tensor;
  std::string state;
  torch::Tensor values;
};

class Job {
 public:
  explicit Job(const ucp::Ranks& ranks)
      : rank_(ranks.rank()),
        size_(ranks.size()),
        model_(torch::nn::Linear(5, 4), torch::nn::Tanh(), torch::nn::Linear(4, 2)),
        optimizer_(model_->parameters(), torch::optim::AdamWOptions(0.1)),
        table_(torch::full({kRowsOfRank, 4}, 100.0 * rank_).to(torch::kBFloat16)) {}

  void Backward() {
    optimizer_.zero_grad();
    model_->forward(torch::ones({1, 5})).sum().backward();
  }
  void Step() {
    optimizer_.step();
    table_.add_(1);
  }

  // Of the checkpoint, in this rank's memory: weights, and the optimizer's two moments.
  std::vector<Named> Tensors() {
    std::vector<Named> all = {{"table", "weight", table_}};
    for (const auto& parameter : model_->named_parameters()) {
      all.push_back({parameter.key(), "weight", parameter.value().detach()});
      const auto found = optimizer_.state().find(parameter.value().unsafeGetTensorImpl());
      if (found == optimizer_.state().end()) continue;  // Before the first step.
      const auto& state = static_cast<const torch::optim::AdamWParamState&>(*found->second);
      all.push_back({parameter.key(), "exp_avg", state.exp_avg()});
      all.push_back({parameter.key(), "exp_avg_sq", state.exp_avg_sq()});
    }
    return all;
  }

  // The rows of this rank, among those of all.
  std::vector<std::vector<ucp::HeldSpan>> Rows() const {
    return {{{rank_ * kRowsOfRank, (rank_ + 1) * kRowsOfRank}}, {{0, 4}}};
  }
  std::vector<std::int64_t> ShapeOfTable() const { return {size_ * kRowsOfRank, 4}; }

  // The state of a moment. The names are those that PyTorch gives it in Python.
  ucp::StateToSave State(int step) {
    ucp::StateToSave state;
    for (const Named& one : Tensors()) {
      ucp::StatePath path = {"model", one.tensor};
      if (one.state != "weight") path = {"optimizer", "state", one.tensor, one.state};
      state.tensors.push_back(ucp::SaveOf(std::move(path), one.values));
      if (one.tensor != "table") continue;
      state.tensors.back().shape = ShapeOfTable();
      state.tensors.back().holds = Rows();
    }
    AddValues(state, step);
    return state;
  }

 private:
  // The optimizer's one group, and a number of the job's own.
  void AddValues(ucp::StateToSave& state, int step) {
    std::vector<std::string> names;
    for (const auto& parameter : model_->named_parameters()) names.push_back(parameter.key());
    const auto& options = static_cast<const torch::optim::AdamWOptions&>(optimizer_.param_groups().front().options());
    const auto& [beta1, beta2] = options.betas();
    const auto add = [&](const char* name, auto value) {
      state.values.push_back({.path = {"optimizer", "param_groups", 0, name}, .value = value});
    };
    add("params", names);
    add("lr", options.lr());
    add("betas", std::vector<double>{beta1, beta2});
    add("eps", options.eps());
    add("weight_decay", options.weight_decay());
    state.values.push_back({.path = {"step"}, .value = step});
  }

  std::int64_t rank_;
  std::int64_t size_;
  torch::nn::Sequential model_;
  torch::optim::AdamW optimizer_;
  torch::Tensor table_;
};

// Fills new tensors with the checkpoint. How many are not what the job had.
int Differences(const std::string& folder, const Job& job, const std::vector<Named>& expected, ucp::MpiRanks& ranks) {
  std::vector<torch::Tensor> loaded;
  std::vector<ucp::TensorToFill> wanted;
  for (const Named& one : expected) {
    loaded.push_back(torch::zeros_like(one.values));
    wanted.push_back(ucp::FillOf(one.tensor, one.state, loaded.back()));
    if (one.tensor != "table") continue;
    wanted.back().shape = job.ShapeOfTable();
    wanted.back().holds = job.Rows();
  }
  ucp::LoadInto({.path = folder}, wanted, {.ranks = &ranks});
  int differences = 0;
  for (std::size_t i = 0; i < loaded.size(); ++i) differences += torch::equal(loaded[i], expected[i].values) ? 0 : 1;
  return differences;
}

void Train(const std::string& folder, ucp::MpiRanks& ranks) {
  torch::manual_seed(7);  // So that all ranks have the same model.
  Job job(ranks);
  job.Backward();
  job.Step();  // The optimizer makes its moments.
  ucp::Saver saver(job.State(0), "dcp", {.ranks = &ranks, .timeout_seconds = 60});
  std::vector<Named> saved;
  std::vector<ucp::Saving> savings;
  for (int step = 1; step < kSteps; ++step) {
    job.Backward();
    saver.WaitForStaging();  // The optimizer changes what is being staged.
    job.Step();
    if (step != kSavedStep) continue;
    savings.push_back(saver.Save(folder, job.State(step)));
    for (const Named& one : job.Tensors()) saved.push_back({one.tensor, one.state, one.values.clone()});
  }
  savings.front().durable.Wait();
  const int now = Differences(folder, job, job.Tensors(), ranks);
  const int then = Differences(folder, job, saved, ranks);
  saver.Close();
  for (const std::string& line :
       ranks.AllGather("rank " + std::to_string(ranks.rank()) + ": of " + std::to_string(saved.size()) + " tensors, " +
                       std::to_string(now) + " have changed since, and " + std::to_string(then) +
                       " differ from what was saved\n")) {
    if (ranks.rank() == 0) std::cout << line << std::flush;
  }
}

}  // namespace

int main(int argc, char** argv) {
  int provided = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
  int code = 1;
  if (argc == 2) {
    ucp::MpiRanks ranks;
    try {
      Train(argv[1], ranks);
      code = 0;
    } catch (const std::exception& error) {
      if (ranks.rank() == 0) std::cerr << "save_libtorch: " << error.what() << "\n";  // All ranks have the same.
    }
  } else {
    std::cerr << "usage: mpirun -n RANKS save_libtorch FOLDER\n";
  }
  MPI_Finalize();
  return code;
}

// deal_layers < CASES > ANSWERS: deals layers over stages as our targets do, for tests/engine/test_stages.py. A case is
// a line "METHOD STAGES WEIGHT…", its answer a line with the first layer of each stage and the number of layers.
#include "compiler/formats/deepspeed/common/deal_layers.h"

#include <iostream>
#include <sstream>
#include <string>

int main() {
  std::string line;
  while (std::getline(std::cin, line)) {
    std::istringstream words(line);
    std::string method;
    std::int64_t stages = 0;
    words >> method >> stages;
    std::vector<std::int64_t> weights;
    for (std::int64_t weight = 0; words >> weight;) weights.push_back(weight);
    const auto found = ucp::FindDealMethod(method);
    if (!found || stages < 1) return 1;
    for (std::int64_t first : ucp::DealLayers(*found, weights, stages)) std::cout << first << ' ';
    std::cout << '\n';
  }
  return 0;
}

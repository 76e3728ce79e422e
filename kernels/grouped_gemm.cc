#include "kernels/grouped_gemm.h"

namespace shardfuzz::kernels {

std::vector<Product> products_of(const JaggedRows& matmul, std::span<const std::int32_t> ends) {
  std::vector<Product> products;
  std::int64_t start = 0, expert = 0;
  for (const std::int64_t end : ends) {
    Product product = {
        .left = matmul.left,
        .right = matmul.right,
        .shape = {.rows = end - start, .columns = matmul.columns, .depth = matmul.depth},
        .out = matmul.out};
    product.left.bytes += start * matmul.left.stride;
    product.left.scales += start;
    product.right.bytes += expert * matmul.expert_stride;
    product.right.scales += expert * matmul.columns;
    product.out.bf16 += start * matmul.out.row_stride;
    if (product.shape.rows > 0) products.push_back(product);
    start = end;
    ++expert;
  }
  return products;
}

std::vector<Product> products_of(const JaggedDepth& matmul, std::span<const std::int32_t> ends) {
  std::vector<Product> products;
  std::int64_t start = 0, group = 0;
  for (const std::int64_t end : ends) {
    Product product = {
        .left = matmul.left,
        .right = matmul.right,
        .shape = {.rows = matmul.rows, .columns = matmul.columns, .depth = end - start},
        .out = matmul.out};
    product.left.bytes += start;
    product.left.scales += group * matmul.rows;
    product.right.bytes += start;
    product.right.scales += group * matmul.columns;
    product.out.bf16 += group * matmul.group_stride;
    products.push_back(product);
    start = end;
    ++group;
  }
  return products;
}

void multiply_products_cpu(std::span<const Product> products) {
  for (const Product& product : products) {
    fp8::multiply(product.left, product.right, product.shape, product.out);
  }
}

}  // namespace shardfuzz::kernels

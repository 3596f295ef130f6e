// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package judged has the program of the tests that judges single packets by network policies. It
// is a package of its own, because the compiler for BPF writes to the folder of one package.
package judged

// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package tree has tests of the files of the tree that no compiler reads, and of the sizes of
// packages. It finds the folders of packages for programs that read the source.
package tree

// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package tree has tests of the files of the tree that no compiler reads, and finds the folders of
// its packages for programs that read the source.
package tree

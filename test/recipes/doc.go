// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package recipes compares the lists of files of ARCHITECTURE.md ("Where something new goes") with
// the tree. Each recipe names an example that exists, by identifiers. A file that has one of them,
// and that no step of the recipe names, fails the test. A path of a step that fits no file with
// one of them fails it too.
package recipes

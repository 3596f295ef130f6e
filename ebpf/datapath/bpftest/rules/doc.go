// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package rules checks the result of the programs for any frame. The rules know the State, and
// nothing of how the programs decide.
package rules

// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package check finds wrong values in a desired state document, each with the path of its field. It
// looks at a field, or at fields of one interface together, and not at the current state.
package check

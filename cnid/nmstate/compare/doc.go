// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package compare tells when two values of state documents mean the same. It returns the form for
// comparisons of addresses, routes, rules and options of bonds, and reports whether a change
// requires a new interface. Its functions have no effects.
package compare

// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package compare tells when two values of state documents mean the same. It returns the one form in
// which addresses, routes, rules and options of bonds are compared, and reports whether a
// change of an interface needs the interface made anew. Its functions have no effects.
package compare

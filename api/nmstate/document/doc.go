// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package document has the state document of nmstate (https://nmstate.io/devel/api.html):
// the present or the desired network of a host. Names and values are nmstate's, in
// kebab-case. A field that is nil is not part of the document: in a desired state it stays
// as it is on the host. The package is pure.
package document

// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package garbage sets how much garbage the processes of the product may have, by the memory
// that they have in use. The environment has precedence (GOGC, GOMEMLIMIT).
package garbage

// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package model checks its models with spin: of claims (042), of bouncers and
// dividers (140), and of the numbers of label sets (165).
package model

// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package model checks its models with spin: of claims (042) and of bouncers
// and dividers (140).
package model

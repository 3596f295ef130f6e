// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package examples reads the READMEs of docs/examples as a person reads them: which
// commands to type, and which output to see. It is pure; test/e2e types the commands.
package examples

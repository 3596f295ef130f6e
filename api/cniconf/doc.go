// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package cniconf reads the text of a configuration of CNI plugins (CNI 1.1, section "Network
// configuration format"), and the link of the nodes that a configuration asks for. It is pure.
//
// The package refuses a text that two parsers could read differently, with a key twice or in
// another case. It does not decide which plugins may run: package store/rules/pluginconf does.
package cniconf

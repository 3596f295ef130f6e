// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package e2e shows on a real cluster, with real pods, kubelets and container runtimes, that Alioth
// keeps its promises. One file holds the tests of one theme; package scene builds tenants and asks
// questions from inside pods.
//
// The tests run when ALIOTH_E2E=1 is set, as root. They use the lab that is up,
// or bring one up and take it down again at the end. They leave the lab as they
// found it.
package e2e

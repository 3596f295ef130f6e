// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package apiserver runs a real etcd and kube-apiserver for tests, with
// Alioth's CustomResourceDefinitions installed.
//
// The API server is the very binary that the lab's cluster runs. RBAC, Node authorization,
// NodeRestriction and ValidatingAdmissionPolicy are on. It runs without controllers, scheduler and
// kubelet: no ServiceAccount appears by itself (and pods need none), a deleted namespace stays
// Terminating, a deleted pod that was bound to a node waits for its grace period to be set to zero,
// and nothing binds pods to nodes but the test.
//
// A package with several tests shares one server, which the first test that
// asks for it starts:
//
//	var api apiserver.Shared
//
//	func TestMain(m *testing.M) { os.Exit(api.Run(m)) }
//
//	func TestX(t *testing.T) { config := api.Config(t) ... }
package apiserver

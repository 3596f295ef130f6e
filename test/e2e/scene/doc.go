// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package scene sets the stage for tests, the demo and the bench on a running cluster:
// tenants with VPCs, pods of the test image, and questions asked from inside those pods.
// It imports no test framework: its functions return errors that contain the state of the
// cluster.
package scene

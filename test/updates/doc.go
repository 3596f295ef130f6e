// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package updates finds writes of whole objects in the source of the product.
//
// An update sends the fields that the Go type has. Of an object whose spec others write it loses
// the data that the type can't hold: unknown fields of another version of the CRD, empty texts of
// optional fields, nulls. A rule for a spec that must not change then refuses the update, for ever.
// So the product updates only kinds that it alone writes. Of others it patches finalizers, labels
// and status.
package updates

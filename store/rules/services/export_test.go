// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package services

// JudgeIn judges a Service in a VPC or network, whether it belongs there or not.
var JudgeIn = judgeIn

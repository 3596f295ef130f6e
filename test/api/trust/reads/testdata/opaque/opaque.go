// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package main hands an object of unknown kind to another module.
package main

import (
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func main() { fmt.Println(encoded(new(corev1.Pod))) }

func encoded(object metav1.Object) string {
	text, _ := json.Marshal(object)
	return string(text)
}

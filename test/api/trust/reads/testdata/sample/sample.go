// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package main reads and writes fields of pods in the ways that the tests of package reads
// look for.
package main

import (
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const readKey = "example.com/read"

func main() {
	pod, node, service := new(corev1.Pod), new(corev1.Node), new(corev1.Service)
	pod.Status.Phase = corev1.PodRunning            // it is written only
	pod.Annotations["example.com/written"] = "text" // and this
	delete(pod.Labels, "example.com/deleted")       // and this
	for i := range pod.Spec.Containers {
		ports(&pod.Spec.Containers[i])
	}
	fmt.Println(keyOf(pod.Annotations), describe(pod), pod.Labels["example.com/label"])
	fmt.Println(whole(node.Spec.Taints), service.Spec.SessionAffinityConfig != nil)
}

// ports reads fields of a part of an object.
func ports(container *corev1.Container) {
	for _, port := range container.Ports {
		fmt.Println(port.HostPort)
	}
}

// keyOf gets annotations as a parameter, and keeps them in a variable.
func keyOf(texts map[string]string) string {
	kept := texts
	return kept[readKey]
}

// describe gets a pod behind an interface.
func describe(object metav1.Object) string { return string(object.GetUID()) }

// whole hands a value to another module.
func whole(taints []corev1.Taint) string {
	text, _ := json.Marshal(taints)
	return string(text)
}

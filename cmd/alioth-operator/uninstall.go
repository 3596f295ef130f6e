// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/alioth-net/alioth/operator/uninstall"
)

// uninstallCommand is the chart's hook before the deletion of its objects.
func uninstallCommand() *cobra.Command {
	cfg := uninstall.Config{Namespace: os.Getenv("POD_NAMESPACE"), Timeout: 4 * time.Minute}
	kubeconfig := os.Getenv("KUBECONFIG")
	cmd := &cobra.Command{
		Use:   "uninstall",
		Short: "Clean all nodes and remove all finalizers, unless pods still have addresses",
		Args:  cobra.NoArgs, SilenceUsage: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			log, err := newLogger("info", "text")
			if err != nil {
				return err
			}
			klog.SetSlogLogger(log)
			ctrllog.SetLogger(logr.FromSlogHandler(log.Handler()))
			c, err := uninstallClient(kubeconfig)
			if err != nil {
				return err
			}
			return uninstall.Run(cmd.Context(), c, cfg, log)
		},
	}
	cmd.Flags().
		StringVar(&kubeconfig, "kubeconfig", kubeconfig, "kubeconfig file; needed only outside of a pod (environment: KUBECONFIG)")
	cmd.Flags().
		StringVar(&cfg.Namespace, "namespace", cfg.Namespace, "namespace of the operator and the daemons (environment: POD_NAMESPACE)")
	cmd.Flags().DurationVar(&cfg.Timeout, "timeout", cfg.Timeout, "time limit for all nodes together")
	return cmd
}

func uninstallClient(kubeconfig string) (client.Client, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("find the API server: %w; outside of a pod give --kubeconfig", err)
	}
	config.UserAgent = "alioth-uninstall"
	scheme := runtime.NewScheme()
	if err := uninstall.AddToScheme(scheme); err != nil {
		return nil, err
	}
	c, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("make API client: %w", err)
	}
	return c, nil
}

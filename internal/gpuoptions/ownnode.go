package gpuoptions

import (
	"os"
	"path/filepath"

	"config-server/internal/farm"
)

// ownNode lists the GPUs of the node that this process runs on, as its kernel shows them below root:
// render nodes by their driver, and the GPUs of NVIDIA's driver, which has no render nodes where
// nobody loads its DRM part. Free is not known. What cannot be read is not there.
func ownNode(root string) []farm.GPUOption {
	found := map[string]int64{}
	cards, _ := filepath.Glob(filepath.Join(root, "sys/class/drm/renderD*"))
	for _, card := range cards {
		if driver, err := os.Readlink(filepath.Join(card, "device/driver")); err == nil {
			found[filepath.Base(driver)]++
		}
	}
	gpus, _ := os.ReadDir(filepath.Join(root, "proc/driver/nvidia/gpus"))
	found[farm.DriverNVIDIA] = max(found[farm.DriverNVIDIA], int64(len(gpus)))

	var options []farm.GPUOption
	for _, f := range families {
		if found[f.driver] > 0 {
			option := detected(f.resource, "", "", farm.GPUFromOwnNode)
			option.Total = found[f.driver]
			options = append(options, option)
		}
	}
	return sorted(options)
}

// A stand-in for GDRCopy's gdrdrv: the same name, parameters, character device and imports from nvidia. It maps
// nothing. SPDX-License-Identifier: MIT
#include <linux/fs.h>
#include <linux/module.h>

#include "nv-p2p.h"

static int dbg_enabled, info_enabled, use_persistent_mapping;
module_param(dbg_enabled, int, 0600);
module_param(info_enabled, int, 0600);
module_param(use_persistent_mapping, int, 0600);

// With these the kernel resolves symbols of nvidia, which therefore lists gdrdrv as a holder.
void *const gdrdrv_imports[] = { nvidia_p2p_get_pages, nvidia_p2p_put_pages, nvidia_p2p_free_page_table };

static int major;
static const struct file_operations operations = { .owner = THIS_MODULE };

static int __init gdrdrv_init(void)
{
	major = register_chrdev(0, "gdrdrv", &operations);
	return major < 0 ? major : 0;
}

static void __exit gdrdrv_exit(void) { unregister_chrdev(major, "gdrdrv"); }

module_init(gdrdrv_init);
module_exit(gdrdrv_exit);
MODULE_VERSION(GDRDRV_VERSION);
MODULE_DESCRIPTION("stand-in for GDRCopy's kernel module");
#ifdef GDRDRV_OPENSOURCE_NVIDIA
MODULE_LICENSE("Dual MIT/GPL");
#else
MODULE_LICENSE("MIT");
#endif
